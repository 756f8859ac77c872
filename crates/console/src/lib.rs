//! The web console: a page that lists any kind live, shows an object with its changes, and draws the flow from a write to
//! its watchers.
//!
//! This crate is the static files in `assets/`, compiled in. It serves nothing itself and has no endpoint of its own: the
//! page in the browser uses the same API as every other client, with a bearer token that stays in its tab. The server
//! answers `/console/…` with [`asset`] and sends [`CONTENT_SECURITY_POLICY`] along.
//!
//! ```
//! let page = listwatch_console::asset("index.html").expect("the start page");
//! assert_eq!(page.content_type, "text/html; charset=utf-8");
//! assert!(listwatch_console::asset("../secrets").is_none());
//! ```

/// The policy sent with every file: scripts, styles and connections of this origin alone, nothing inline, no frames.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the console.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// The media type to send.
    pub content_type: &'static str,
    /// The bytes of the file.
    pub body: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

macro_rules! assets {
    ($($name:literal $content_type:expr;)*) => {
        /// Every file by its name.
        const ASSETS: &[(&str, Asset)] = &[
            $(($name, Asset { content_type: $content_type, body: include_bytes!(concat!("../assets/", $name)) }),)*
        ];
    };
}

assets! {
    "index.html" HTML;
    "style.css" STYLE;
    "icon.svg" IMAGE;
    "api.js" SCRIPT;
    "app.js" SCRIPT;
    "diff.js" SCRIPT;
    "dom.js" SCRIPT;
    "metrics.js" SCRIPT;
    "page_flow.js" SCRIPT;
    "page_list.js" SCRIPT;
    "page_object.js" SCRIPT;
    "rows.js" SCRIPT;
    "yaml.js" SCRIPT;
}

/// Returns a file by its name relative to `/console/`. The empty name is the start page.
#[must_use]
pub fn asset(name: &str) -> Option<&'static Asset> {
    let name = if name.is_empty() { "index.html" } else { name };
    ASSETS.iter().find(|(known, _)| *known == name).map(|(_, asset)| asset)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The promised upper bound of everything that a browser loads.
    const MAX_TOTAL_BYTES: usize = 300 << 10;

    #[test]
    fn all_files_together_stay_small() {
        let total: usize = ASSETS.iter().map(|(_, asset)| asset.body.len()).sum();
        assert!(total < MAX_TOTAL_BYTES, "{total} bytes");
    }

    #[test]
    fn every_file_in_the_folder_is_served() {
        // Tests run in the folder of their package.
        for entry in std::fs::read_dir("assets").expect("the assets") {
            let name = entry.expect("an entry").file_name().into_string().expect("a name");
            assert!(asset(&name).is_some(), "{name} is not in the table");
        }
    }

    #[test]
    fn nothing_outside_the_table_is_served() {
        for name in ["../Cargo.toml", "/etc/passwd", "index.html/", "INDEX.HTML", "api.js\0"] {
            assert!(asset(name).is_none(), "{name:?}");
        }
    }

    /// The policy forbids inline scripts and styles, so a page that used them would not work.
    #[test]
    fn the_start_page_has_nothing_inline() {
        let page = std::str::from_utf8(asset("").expect("the start page").body).expect("text");
        assert!(!page.contains("style=") && !page.contains("onclick") && !page.contains("<style"));
        assert!(!page.contains("<script>"));
    }
}
