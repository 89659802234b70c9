//! Declarations of plain XDR structures and of wire integers with named values.

/// Declares a structure whose XDR form is its fields in order.
///
/// ```
/// weft_xdr::xdr_struct! {
///     /// Two numbers.
///     pub struct Pair {
///         /// First.
///         pub a: u32,
///         /// Second.
///         pub b: u64,
///     }
/// }
/// ```
#[macro_export]
macro_rules! xdr_struct {
    ($(#[$m:meta])* pub struct $name:ident { $($(#[$fm:meta])* pub $f:ident : $t:ty),* $(,)? }) => {
        $(#[$m])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$fm])* pub $f: $t),* }
        impl $crate::Decode for $name {
            fn decode(r: &mut $crate::Reader) -> Result<Self, $crate::DecodeError> {
                r.label(stringify!($name));
                Ok($name { $($f: <$t as $crate::Decode>::decode(r)?),* })
            }
        }
        impl $crate::Encode for $name {
            fn encode(&self, w: &mut $crate::Writer) {
                let _ = &w;
                $($crate::Encode::encode(&self.$f, w);)*
            }
        }
    };
}

/// Declares a wire integer as a newtype with named constants: unknown values survive decoding
/// and print as numbers.
#[macro_export]
macro_rules! xdr_named {
    ($(#[$m:meta])* pub struct $name:ident { $($(#[$vm:meta])* $v:ident = $n:expr),* $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        #[allow(missing_docs, reason = "the names are the RFC's own")]
        impl $name {
            $($(#[$vm])* pub const $v: $name = $name($n);)*
            /// Every named value.
            pub const ALL: &'static [$name] = &[$($name::$v),*];
            /// The RFC's name of the value, if it has one.
            pub fn name(self) -> Option<&'static str> {
                $(if self.0 == $n { return Some(stringify!($v)); })*
                None
            }
        }
        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self.name() {
                    Some(n) => f.write_str(n),
                    None => write!(f, "{}({})", stringify!($name), self.0),
                }
            }
        }
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(self, f)
            }
        }
        impl $crate::Decode for $name {
            fn decode(r: &mut $crate::Reader) -> Result<Self, $crate::DecodeError> {
                Ok($name(r.u32()?))
            }
        }
        impl $crate::Encode for $name {
            fn encode(&self, w: &mut $crate::Writer) { w.u32(self.0); }
        }
    };
}
