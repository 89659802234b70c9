//! Tests of the volume.
