//! Generates the messages and the ttrpc client and server from `proto/`, without `protoc`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = "proto/image_pull.proto";
    println!("cargo::rerun-if-changed={proto}");
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?);
    ttrpc_codegen::Codegen::new()
        .out_dir(&out_dir)
        .input(proto)
        .include("proto")
        .rust_protobuf()
        .customize(ttrpc_codegen::Customize {
            async_all: true,
            ..Default::default()
        })
        .run()?;
    // The generator's own module list begins with an inner attribute, which `include!` does not accept.
    std::fs::write(
        out_dir.join("generated.rs"),
        "pub mod image_pull;\npub mod image_pull_ttrpc;\n",
    )?;
    Ok(())
}
