//! Arguments and results of the operations, and whether one may be executed twice.

use weft_xdr::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer};

use crate::op_args::op_args;
use crate::op_num::OpNum;
use crate::op_rows::op_rows;
use crate::ops::*;

/// Whether a client that did not see the answer to an operation may have it executed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeatable {
    /// The second time it does and answers the same.
    Always,
    /// Its arguments decide.
    ByArguments,
    /// The second time it fails, or does something else.
    Never,
}

/// Reads the rest of each row.
macro_rules! operations {
    ($(
        $NUM:ident = $n:literal, minor $minor:literal
            $(, $again:ident: $Name:ident $(($args:ty))? $(=> $ok:ty)?)?;
    )*) => {
        op_args! {
            /// Arguments of one operation.
            #[derive(Debug, Clone)]
            pub enum OpArgs, "nfs_argop4" {
                $($(OpNum::$NUM => $Name $(($args))?,)?)*
                /// An operation whose arguments are not read: it is refused by its number.
                else Unread(OpNum),
            }
        }

        impl OpArgs {
            /// Whether the operation may be executed twice.
            pub fn repeatable(&self) -> Repeatable {
                match self {
                    $($(OpArgs::$Name { .. } => Repeatable::$again,)?)*
                    OpArgs::Unread(_) => Repeatable::Never,
                }
            }
        }

        /// Successful result of one operation.
        #[derive(Debug, Clone)]
        #[allow(missing_docs, reason = "one variant an operation, under the RFC's name")]
        #[allow(
            clippy::large_enum_variant,
            reason = "GETATTR is the commonest result: a box for each would cost more than the \
                      bytes, of which one result at a time is in memory"
        )]
        pub enum OpOk {
            $($($Name $(($ok))?,)?)*
        }

        impl OpOk {
            /// The operation's number.
            pub fn op(&self) -> OpNum {
                match self { $($(OpOk::$Name { .. } => OpNum::$NUM,)?)* }
            }

            pub(crate) fn encode_body(&self, w: &mut Writer) {
                match self {
                    $($(op_args!(@bind v, OpOk::$Name $(, $ok)?) => {
                        op_args!(@encode v, w $(, $ok)?)
                    })?)*
                }
            }

            pub(crate) fn decode_body(op: OpNum, r: &mut Reader) -> Result<OpOk, DecodeError> {
                Ok(match op {
                    $($(OpNum::$NUM => op_args!(@decode r, OpOk::$Name $(, $ok)?),)?)*
                    _ => return Err(r.error(DecodeErrorKind::Value)),
                })
            }
        }
    };
}

op_rows!(operations);
