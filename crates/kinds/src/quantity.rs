//! Amounts of resources: `100m`, `1.5Gi`, `12e6`, and the one canonical way to write each.
//!
//! A quantity is kept as text everywhere; this module rewrites it the way the API does, so that equal amounts are equal
//! text. [`Quantity`] is for sums and differences.
//!
//! Amounts are bounded to 63 bits of whole units and nine decimal places, as apimachinery bounds them. Expressions
//! have a type of their own for the `quantity` library, in `listwatch-cel`, because that has to reproduce the fast
//! path of Go's parser.

use std::borrow::Cow;
use std::cmp::Ordering;

/// The error of a text that is not a quantity. The message is apimachinery's and ends up in field errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub struct InvalidQuantity;

/// Nothing finer than this is kept; what is finer is rounded away from zero.
const FINEST: i32 = -9;
/// Amounts are capped here, as the API does.
const LARGEST: i128 = i64::MAX as i128;

/// The notation of a quantity, which its canonical text keeps: `1Ki` stays binary, `1e3` stays an exponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QuantityFormat {
    #[default]
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// A parsed amount: `mantissa * 10^exponent`.
struct Amount {
    mantissa: i128,
    exponent: i32,
    format: QuantityFormat,
}

/// Writes a quantity in its canonical form; borrows when it already is.
///
/// ```
/// use listwatch_kinds::quantity::canonical;
/// assert_eq!(canonical("0.5").unwrap(), "500m");
/// assert_eq!(canonical("1024Mi").unwrap(), "1Gi");
/// assert_eq!(canonical("2000m").unwrap(), "2");
/// ```
///
/// The common forms are recognized without arithmetic; others cost a parse and an allocation.
///
/// # Errors
/// When the text is not a quantity.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, InvalidQuantity> {
    if is_canonical(text) {
        return Ok(Cow::Borrowed(text));
    }
    let written = parse(text)?.to_text();
    Ok(if written == text { Cow::Borrowed(text) } else { Cow::Owned(written) })
}

/// Returns true if an amount is made of whole pieces of a size, and that size is a whole number above zero.
pub(crate) fn is_multiple(amount: &str, size: &str) -> bool {
    const WHOLE: i128 = 1_000_000_000;
    let (Ok(amount), Ok(size)) = (Quantity::parse(amount), Quantity::parse(size)) else { return false };
    // Rounded up, as kube-apiserver does when it needs a whole number.
    let amount = amount.finest.saturating_add(WHOLE - 1).div_euclid(WHOLE);
    size.finest > 0 && size.finest % WHOLE == 0 && amount % (size.finest / WHOLE) == 0
}

/// Rounds a canonical quantity up to thousandths, which is as fine as amounts of resources are counted.
pub(crate) fn to_thousandths(text: &str) -> Option<String> {
    const THOUSANDTH: i128 = 1_000_000;
    let fine = text.ends_with(['u', 'n']).then(|| Quantity::parse(text).ok())??;
    let (size, sign) = (fine.finest.unsigned_abs(), fine.finest.signum());
    let up = i128::try_from(size.div_ceil(THOUSANDTH.unsigned_abs())).ok()?;
    Some(Quantity { finest: up.saturating_mul(THOUSANDTH).saturating_mul(sign), ..fine }.to_string())
}

/// Recognises the common canonical forms without parsing: a short whole number that its suffix cannot shorten.
fn is_canonical(text: &str) -> bool {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let whole = !digits.is_empty() && !digits.starts_with('0') && digits.len() <= 6;
    let number: u32 = digits.parse().unwrap_or(0);
    whole
        && match suffix {
            "" | "m" | "k" | "M" | "G" => !number.is_multiple_of(1000),
            "Ki" | "Mi" | "Gi" => !number.is_multiple_of(1024),
            _ => false,
        }
}

/// Compares two quantities by amount: `1000m` equals `1`.
///
/// ```
/// use std::cmp::Ordering;
///
/// use listwatch_kinds::quantity::compare;
///
/// assert_eq!(compare("1Gi", "1G").unwrap(), Ordering::Greater);
/// assert!(compare("1 Gi", "1").is_err());
/// ```
///
/// # Errors
/// When one of the texts is not a quantity.
pub fn compare(a: &str, b: &str) -> Result<Ordering, InvalidQuantity> {
    let (a, b) = (parse(a)?.in_finest(), parse(b)?.in_finest());
    Ok(a.cmp(&b))
}

/// An amount to calculate with, exact to a billionth. Two of them are equal if their amounts are, however they were
/// written.
///
/// ```
/// use listwatch_kinds::quantity::Quantity;
/// let sum = Quantity::parse("600m").unwrap().plus(Quantity::parse("600m").unwrap());
/// assert_eq!(sum.to_string(), "1200m");
/// assert!(sum > Quantity::whole(1));
/// ```
///
/// 128 bits of billionths: sums of very many amounts saturate instead of wrapping.
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "resource.Quantity")]
pub struct Quantity {
    finest: i128,
    format: QuantityFormat,
}

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// When the text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, InvalidQuantity> {
        let amount = parse(text)?;
        Ok(Self { finest: amount.in_finest(), format: amount.format })
    }

    /// The quantity of a whole number, such as a count of objects in a ResourceQuota.
    #[must_use]
    pub fn whole(number: i64) -> Self {
        Self { finest: i128::from(number).saturating_mul(1_000_000_000), format: QuantityFormat::DecimalSi }
    }

    /// The sum, written like the first summand unless that is zero.
    ///
    /// ResourceQuotas add up usage with it, and the format of the first summand is what kubectl shows.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.finest == 0 { other.format } else { self.format };
        Self { finest: self.finest.saturating_add(other.finest), format }
    }

    /// The difference, written like the first operand unless that is zero.
    ///
    /// ```
    /// use listwatch_kinds::quantity::Quantity;
    ///
    /// let left = Quantity::parse("1Gi").unwrap().minus(Quantity::parse("512Mi").unwrap());
    /// assert_eq!(left.to_string(), "512Mi");
    /// ```
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { finest: other.finest.saturating_neg(), ..other })
    }

    /// Returns true if the amount is zero, in any unit.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.finest == 0
    }

    /// Returns true if the amount is below zero: requests, limits and quotas may not be.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.finest < 0
    }

    /// The amount as a floating-point number, for ratios.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.finest as f64 / 1e9
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.finest == other.finest
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.finest.cmp(&other.finest)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut amount = Amount { mantissa: self.finest, exponent: FINEST, format: self.format };
        amount.settle();
        f.write_str(&amount.to_text())
    }
}

/// Parses a quantity: a sign, decimal digits with an optional fraction, and a suffix. Digits beyond the precision of
/// Kubernetes are rounded up.
fn parse(text: &str) -> Result<Amount, InvalidQuantity> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(InvalidQuantity);
    }
    let (base2, base10, format) = suffix_of(suffix)?;
    let mut amount = digits(whole, fraction);
    amount.format = format;
    amount.exponent = amount.exponent.saturating_add(base10);
    amount.mantissa =
        amount.mantissa.checked_shl(base2).filter(|m| m >> base2 == amount.mantissa).unwrap_or(i128::MAX);
    amount.settle();
    if negative {
        amount.mantissa = -amount.mantissa;
    }
    Ok(amount)
}

/// Reads digits, dropping (rounding up) what no amount can hold.
fn digits(whole: &str, fraction: &str) -> Amount {
    /// Enough for the largest amount in its finest unit.
    const ENOUGH: i128 = 1_000_000_000_000_000_000_000_000_000_000;
    let mut amount = Amount { mantissa: 0, exponent: 0, format: QuantityFormat::DecimalSi };
    let mut lost = false;
    for digit in whole.bytes().map(|b| i128::from(b - b'0')) {
        if amount.mantissa < ENOUGH {
            amount.mantissa = amount.mantissa * 10 + digit;
        } else {
            amount.exponent = amount.exponent.saturating_add(1);
        }
    }
    for digit in fraction.bytes().map(|b| i128::from(b - b'0')) {
        if amount.mantissa < ENOUGH && amount.exponent <= 0 {
            amount.mantissa = amount.mantissa * 10 + digit;
            amount.exponent -= 1;
        } else {
            lost |= digit != 0;
        }
    }
    amount.mantissa += i128::from(lost);
    amount
}

/// The powers of two and of ten of a suffix.
fn suffix_of(suffix: &str) -> Result<(u32, i32, QuantityFormat), InvalidQuantity> {
    let decimal = |exponent| Ok((0, exponent, QuantityFormat::DecimalSi));
    let binary = |power| Ok((power, 0, QuantityFormat::BinarySi));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).ok_or(InvalidQuantity)?;
            let exponent: i16 = exponent.parse().map_err(|_| InvalidQuantity)?;
            Ok((0, i32::from(exponent), QuantityFormat::DecimalExponent))
        }
    }
}

impl Amount {
    /// Rounds to the finest unit, caps at the largest amount, and drops trailing zeros.
    fn settle(&mut self) {
        if self.exponent < FINEST {
            let by = u32::try_from(FINEST - self.exponent).unwrap_or(u32::MAX);
            self.mantissa = match 10i128.checked_pow(by) {
                Some(divisor) => self.mantissa / divisor + i128::from(self.mantissa % divisor != 0),
                None => i128::from(self.mantissa != 0),
            };
            self.exponent = FINEST;
        }
        while self.mantissa != 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.exponent += 1;
        }
        if self.exponent >= 0 && power(self.mantissa, self.exponent).is_none_or(|amount| amount > LARGEST)
            || self.exponent < 0 && self.mantissa / 10i128.pow(self.exponent.unsigned_abs()) > LARGEST
        {
            (self.mantissa, self.exponent) = (LARGEST, 0);
        }
        if self.mantissa == 0 {
            self.exponent = 0;
        }
    }

    /// The amount as an integer, if it is one.
    fn as_integer(&self) -> Option<i128> {
        if self.exponent < 0 { None } else { power(self.mantissa, self.exponent) }
    }

    fn in_finest(&self) -> i128 {
        power(self.mantissa, self.exponent - FINEST).unwrap_or(i128::MAX)
    }

    /// Writes the canonical text: no fraction, the largest suffix that leaves a whole number.
    fn to_text(&self) -> String {
        if self.mantissa == 0 {
            return "0".to_owned();
        }
        if self.format == QuantityFormat::BinarySi
            && let Some(amount) = self.as_integer()
            && amount.abs() >= 1024
        {
            return binary_text(amount);
        }
        // Suffixes are powers of a thousand, so the exponent is rounded down to the next one.
        let exponent = (self.exponent.div_euclid(3) * 3).min(18);
        let mantissa = power(self.mantissa, self.exponent - exponent).unwrap_or(LARGEST);
        match (self.format, exponent) {
            (_, 0) => mantissa.to_string(),
            (QuantityFormat::DecimalExponent, _) => format!("{mantissa}e{exponent}"),
            _ => format!("{mantissa}{}", decimal_suffix(exponent)),
        }
    }
}

fn power(mantissa: i128, exponent: i32) -> Option<i128> {
    mantissa.checked_mul(10i128.checked_pow(u32::try_from(exponent).ok()?)?)
}

/// Writes a whole number with the largest binary suffix that divides it.
fn binary_text(mut amount: i128) -> String {
    let mut suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = "";
    while amount % 1024 == 0
        && let Some(next) = suffixes.next()
    {
        amount /= 1024;
        suffix = next;
    }
    format!("{amount}{suffix}")
}

/// Returns the suffix of a power of a thousand.
fn decimal_suffix(exponent: i32) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        _ => "E",
    }
}

#[cfg(test)]
mod tests;
