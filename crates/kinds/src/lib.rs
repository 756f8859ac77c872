//! The built-in kinds of the Kubernetes API as data: schemas, defaults, validation, columns, protobuf.
