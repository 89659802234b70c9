//! The shape that requests and callbacks share: a number, and the arguments that go with it.

/// Makes the arguments of operations, one variant for each whose arguments are known, and their
/// XDR: the number, then the arguments.
macro_rules! op_args {
    (
        $(#[$m:meta])*
        pub enum $Args:ident, $label:literal {
            $($Num:ident::$NUM:ident => $Name:ident $(($args:ty))?,)*
            $(#[$om:meta])*
            else $Other:ident($OtherNum:ident),
        }
    ) => {
        $(#[$m])*
        #[allow(missing_docs, reason = "one variant an operation, under the RFC's name")]
        pub enum $Args {
            $($Name $(($args))?,)*
            $(#[$om])*
            $Other($OtherNum),
        }

        impl $Args {
            /// The operation's number.
            pub fn op(&self) -> $OtherNum {
                match self {
                    $($Args::$Name { .. } => $Num::$NUM,)*
                    $Args::$Other(op) => *op,
                }
            }

            /// Reads what follows an operation's number.
            ///
            /// # Errors
            /// The bytes are not that operation's arguments: BADXDR.
            pub fn decode_body(op: $OtherNum, r: &mut Reader) -> Result<Self, DecodeError> {
                r.label($label);
                Ok(match op {
                    $($Num::$NUM => op_args!(@decode r, $Args::$Name $(, $args)?),)*
                    other => $Args::$Other(other),
                })
            }
        }

        impl Decode for $Args {
            fn decode(r: &mut Reader) -> Result<Self, DecodeError> {
                r.label($label);
                let op = $OtherNum::decode(r)?;
                Self::decode_body(op, r)
            }
        }

        impl Encode for $Args {
            fn encode(&self, w: &mut Writer) {
                self.op().encode(w);
                match self {
                    $(op_args!(@bind v, $Args::$Name $(, $args)?) => {
                        op_args!(@encode v, w $(, $args)?)
                    })*
                    $Args::$Other(_) => {}
                }
            }
        }
    };
    (@bind $v:ident, $E:ident::$Name:ident) => { $E::$Name };
    (@bind $v:ident, $E:ident::$Name:ident, $t:ty) => { $E::$Name($v) };
    (@encode $v:ident, $w:ident) => { () };
    (@encode $v:ident, $w:ident, $t:ty) => { $v.encode($w) };
    (@decode $r:ident, $E:ident::$Name:ident) => { $E::$Name };
    (@decode $r:ident, $E:ident::$Name:ident, $t:ty) => { $E::$Name(<$t>::decode($r)?) };
}

pub(crate) use op_args;
