//! Generates the messages and the ttrpc client and server from `proto/`, without `protoc`.

use std::path::PathBuf;

/// The files in `proto/`, and the modules made of them.
const NAMES: [&str; 5] = [
    "image_pull",
    "image_store",
    "get_resource",
    "attestation_agent",
    "key_provider",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let protos = NAMES.map(|name| format!("proto/{name}.proto"));
    for proto in &protos {
        println!("cargo::rerun-if-changed={proto}");
    }
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR")?);
    ttrpc_codegen::Codegen::new()
        .out_dir(&out_dir)
        .inputs(&protos)
        .include("proto")
        .rust_protobuf()
        .customize(ttrpc_codegen::Customize {
            async_all: true,
            ..Default::default()
        })
        .run()?;
    // The generator's own module list begins with an inner attribute, which `include!` does not
    // accept.
    let modules = NAMES.map(|name| format!("pub mod {name};\npub mod {name}_ttrpc;\n"));
    std::fs::write(out_dir.join("generated.rs"), modules.concat())?;
    Ok(())
}
