//! Static tokens and kube-apiserver's CSV file of them (`--token-auth-file`).
//!
//! They hold as long as the server runs: the file is read once at the start, so revoking one needs a restart. `Debug`
//! never prints a secret. Anything that should expire is a service account token ([`crate::auth::ServiceAccounts`])
//! or comes from an issuer.

use crate::auth::User;

/// A static token and its user. The group `system:authenticated` is added by [`crate::auth::Authenticator`].
#[derive(Clone)]
pub struct Token {
    /// The secret.
    pub secret: String,
    /// The user of the token.
    pub user: User,
}

impl std::fmt::Debug for Token {
    /// Without the secret, which has no place in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Reads kube-apiserver's CSV: `token,user,uid` and optionally `"group1,group2"`. Lines that begin with `#` are
/// comments.
///
/// ```
/// let tokens = listwatch_server::auth::parse_token_file("secret,alice,uid-1,\"devs,ops\"").unwrap();
/// assert_eq!(tokens[0].user.groups, ["devs", "ops"]);
/// ```
///
/// # Errors
/// The number of the line and its error. No message contains a token.
pub fn parse_token_file(text: &str) -> Result<Vec<Token>, String> {
    let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
    lines
        .filter(|(_, l)| !l.is_empty() && !l.starts_with('#'))
        .map(|(number, line)| token(line, number))
        .collect()
}

/// One line: token, name, uid and, between quotes, groups. The error names the line and never the token.
fn token(line: &str, number: usize) -> Result<Token, String> {
    let fields = csv_fields(line).ok_or_else(|| format!("line {number}: a quote is not closed"))?;
    let mut fields = fields.into_iter();
    let (Some(secret), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next()) else {
        return Err(format!("line {number}: needs at least token, user and uid"));
    };
    if secret.is_empty() || name.is_empty() {
        return Err(format!("line {number}: token and user must not be empty"));
    }
    let groups = fields.next().unwrap_or_default();
    let groups = groups.split(',').map(str::trim).filter(|g| !g.is_empty()).map(str::to_owned).collect();
    Ok(Token { secret, user: User { name, uid, groups, ..User::default() } })
}

/// Commas inside quotes do not separate; a doubled quote inside quotes is one quote.
///
/// `None` for a quote that is not closed. The parser of Go's `encoding/csv` would go on with the next line, which no
/// token file needs.
fn csv_fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    fields.push(field.trim().to_owned());
    (!quoted).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_files_are_read_as_kube_apiserver_reads_them() {
        let tokens =
            parse_token_file("# people\nt1,admin,1,\"system:masters,devs\"\n\nt2, alice ,2\n").unwrap();
        assert_eq!(tokens[0].user.groups, ["system:masters", "devs"]);
        assert_eq!((tokens[1].secret.as_str(), tokens[1].user.name.as_str()), ("t2", "alice"));
        assert!(parse_token_file("t1,admin").unwrap_err().starts_with("line 1"));
        assert!(parse_token_file("a,b,c,\"x").unwrap_err().contains("quote"));
    }
}
