//! What can be wrong with a URL.

use crate::limits::URL_BYTES_MAX;

/// What URLs of ours begin with.
pub(super) const SCHEME: &str = "weft://";
/// Every option there is.
pub(super) const NAMES: [&str; 12] = [
    "minorversion",
    "layouts",
    "eager",
    "slots",
    "patience",
    "data_server_patience",
    "cache",
    "cache_bytes",
    "gather_below",
    "read_ahead",
    "delegations",
    "local",
];

/// Why a text is no URL of ours, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It begins with something else.
    #[error("\"{0}\" does not begin with {SCHEME}: write {SCHEME}HOST/PATH")]
    Scheme(String),
    /// It is longer than [`URL_BYTES_MAX`].
    #[error("a URL of {0} bytes is too long: at most {URL_BYTES_MAX}")]
    TooLong(usize),
    /// No server is named.
    #[error("\"{0}\" names no server: write {SCHEME}HOST/PATH, such as {SCHEME}localhost/data")]
    NoHost(String),
    /// The server's name or address is written wrong.
    #[error(
        "\"{0}\" is no server: write a name or an address, and brackets around one of IPv6, such \
         as fs.example.org, 192.0.2.7 or [2001:db8::7]"
    )]
    Host(String),
    /// The part behind the host's colon is no port.
    #[error("\"{0}\" is no port: write a number from 1 to 65535, or leave it out for 2049")]
    Port(String),
    /// A `%` in the path without two hexadecimal digits, or a byte that no name has.
    #[error(
        "\"{0}\" is no path: a % stands before two digits as in %20 (%25 is % itself), not %00"
    )]
    Path(String),
    /// An option without a value.
    #[error("\"{0}\" has no value: write OPTION=VALUE, with & between options")]
    NoValue(String),
    /// No option is called so.
    #[error("there is no option \"{0}\": these are {known}", known = NAMES.join(", "))]
    UnknownOption(String),
    /// An option that is there already.
    #[error("option \"{0}\" is given twice: write it once")]
    Twice(String),
    /// A value that the option does not take.
    #[error("{option}={value}: write {wanted}")]
    Value {
        /// The option.
        option: &'static str,
        /// What was written.
        value: String,
        /// What it takes.
        wanted: &'static str,
    },
}
