//! The messages and the ttrpc clients and servers in `src/generated` are what the generator makes of
//! `proto/`. With `CONFIGDEV_GENERATE=1` they are written anew, without `protoc`.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs;
use std::path::Path;

use ttrpc_codegen::{Codegen, Customize};

#[test]
fn the_generated_files_are_those_of_the_proto_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let protos: Vec<_> =
        fs::read_dir(folder.join("proto")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let made = tempfile::tempdir().unwrap();
    Codegen::new()
        .out_dir(made.path())
        .inputs(&protos)
        .include(folder.join("proto"))
        .rust_protobuf()
        .customize(Customize { async_all: true, ..Default::default() })
        .run()
        .unwrap();
    for proto in &protos {
        let name = proto.file_stem().unwrap().to_str().unwrap();
        for file in [format!("{name}.rs"), format!("{name}_ttrpc.rs")] {
            let kept = folder.join("src/generated").join(&file);
            let text = fs::read_to_string(made.path().join(&file)).unwrap();
            if std::env::var_os("CONFIGDEV_GENERATE").is_some() {
                fs::write(kept, text).unwrap();
            } else {
                let is_same = fs::read_to_string(kept).is_ok_and(|kept| kept == text);
                assert!(is_same, "{file} is another: run this with CONFIGDEV_GENERATE=1");
            }
        }
    }
}
