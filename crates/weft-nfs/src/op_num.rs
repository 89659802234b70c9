//! The numbers of the operations.

use weft_xdr::xdr_named;

use crate::op_rows::op_rows;

/// Reads of each row the number, its name, and where it begins.
macro_rules! numbers {
    ($(
        $NUM:ident = $n:literal, minor $minor:literal
            $(, $again:ident: $Name:ident $(($args:ty))? $(=> $ok:ty)?)?;
    )*) => {
        xdr_named! {
            /// Operation numbers.
            pub struct OpNum {
                $($NUM = $n,)*
                ILLEGAL = 10044,
            }
        }

        impl OpNum {
            /// The first minor version that has the operation, 0 for those that 4.1 made obsolete
            /// too; none for a number that stands for no operation.
            pub const fn since_minor(self) -> Option<u32> {
                match self.0 {
                    $($n => Some($minor),)*
                    _ => None,
                }
            }
        }
    };
}

op_rows!(numbers);
