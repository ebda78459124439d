# What is done to a node on which all is well (tests/data/node): a part of hack/same's corpus.
## before
cp -r /srv/tests/data/node .; cd node
handler=opt/kata/share/defaults/kata-containers/runtimes/qemu-snp
main=$handler/configuration-qemu-snp.toml
dropin=$handler/config.d
wrapper=usr/local/bin/kata-configdev-qemu
qemu=opt/kata/bin/qemu-system-x86_64
etc=etc/kata-configdev
containerd=etc/containerd/config.toml
eks=/srv/crates/kata-configdev/tests/data/kubelet/eks.json
providers=etc/eks/image-credential-provider
put() { mkdir -p $(dirname $1); printf "$2" >$1; chmod 600 $1; }
add() { printf "$2" >>$1; }
mkdir $etc/documents; chmod 600 $etc/imagepuller.toml
## command doctor
kata-configdev doctor --host-root .
## command doctor-json
kata-configdev doctor --json --host-root .
## command install-check
cd ..; mkdir secret; printf '[registries."b.corp"]\nplain-http = true\n' >secret/imagepuller.toml
echo wrapper >wrapper; cat >installer <<'END'
host = "/mnt/node"
prefix = "/opt/kata-configdev"
wrapper = "/mnt/wrapper"
listen = "127.0.0.1:0"
binaries = ["/opt/kata/bin"]
[sets.default]
secret = "/mnt/secret"
handlers = ["/opt/kata/share/defaults/kata-containers/runtimes/qemu-snp"]
settings = { qemu = "/opt/kata/bin/qemu-system-x86_64", annotation-allow = ["/etc/allowed"] }
END
kata-configdev install --check --config installer

## way well
## way settings-missing
rm $etc/config.toml
## way settings-unknown-key
add $etc/config.toml 'documnet = "/x"\n'
## way settings-writable
chmod 664 $etc/config.toml
## way settings-directory-writable
chmod 777 $etc
## way settings-too-long
head -c 70000 /dev/zero | tr '\0' '#' >$etc/config.toml
## way settings-not-read
put $etc/config.d/10-own.toml~ ''
## way settings-link
put $etc/own.toml 'refuse = "disk"\n'; mkdir $etc/config.d
ln -s ../own.toml $etc/config.d/10-own.toml
## way set-off
put $etc/config.d/99-off.toml 'enabled = false\n'
## way drop-in-missing
rm $dropin/zz-kata-configdev.toml
## way transport-refused
add $etc/config.toml 'transport = "vhost-user"\n'
## way annotation-directory
rmdir $etc/documents
## way annotation-document
put $etc/documents/team-a.toml '[registries."a.corp"]\npasword = "hunter2-token"\n'
put $etc/documents/team-b.toml '[registries."a.corp"]\n'; chmod 666 $etc/documents/team-b.toml
## way document-missing
rm $etc/imagepuller.toml
## way document-pattern
sed -i 's/imagepuller.toml/no*.toml/' $etc/config.toml
## way document-unknown-key
add $etc/imagepuller.toml 'pasword = "hunter2-token"\n'
## way document-readable
chmod 644 $etc/imagepuller.toml
## way document-of-another
chown 1000 $etc/imagepuller.toml
## way document-node-error
put $etc/imagepuller.toml 'node-error = "the secret is late"\n'
## way document-is-directory
rm $etc/imagepuller.toml; mkdir $etc/imagepuller.toml
## way document-none
put $etc/config.toml 'qemu = "/opt/kata/bin/qemu-system-x86_64"\n'
## way qemu-missing
rm $qemu
## way qemu-not-executable
chmod 644 $qemu
## way qemu-differs
sed -i s/qemu-system-x86_64/qemu-system-x86_64-snp-experimental/ $main
## way qemu-is-wrapper
sed -i "s|/$qemu|/$wrapper|" $etc/config.toml
## way wrapper-missing
rm $wrapper
## way wrapper-not-executable
chmod 644 $wrapper
## way wrapper-other-version
printf '\1program-version=0.0.9 (commit unknown)\1' >$wrapper
## way handler-missing
rm $main
## way drop-in-overrides
put $dropin/zz-own.toml '[hypervisor.qemu]\npath = "/opt/kata/bin/qemu-system-x86_64"\n'
## way drop-in-wrapper-setting
add $dropin/zz-kata-configdev.toml 'document = "/etc/x.toml"\n'
## way drop-in-unknown-key
put $dropin/60-own.toml '[hypervisor.qemu]\ndefault_memroy = 4096\n'
## way drop-in-directory
mkdir $dropin/old
## way drop-in-link
ln -s /etc/own.toml $dropin/60-own.toml
## way drop-in-name
put $dropin/60-own.toml~ ''
## way drop-in-no-toml
put $dropin/60-own.toml 'path = \n'
## way hypervisor-second
add $main '[hypervisor.clh]\npath = "/opt/kata/bin/clh"\n'
## way hypervisor-other
add $main 'hypervisor_name = "cloud-hypervisor"\n'
## way hypervisor-none
sed -i 's/hypervisor.qemu/hypervisor.clh/' $main
## way vm-factory
add $main '[factory]\nenable_template = true\n'
## way annotations-not-passed
sed -i s/io.katacontainers/io.kata-other/ $containerd
## way containerd-no-toml
add $containerd '[plugins\n'
## way k3s
mkdir -p var/lib/rancher/k3s/agent/etc/containerd
mv $containerd var/lib/rancher/k3s/agent/etc/containerd
## way cri-o
rm $containerd
put etc/crio/crio.conf.d/10-kata.conf '[crio.runtime.runtimes.kata]\nruntime_type = "vm"\n'
add etc/crio/crio.conf.d/10-kata.conf "runtime_config_path = \"/$main\"\n"
## way guest-pull-nowhere
sed -i /guest_pull/d $main; sed -i /guest-pull/d $etc/config.toml
## way guest-pull-differs
sed -i /guest_pull/d $main
## way guest-pull-encrypted
add $etc/imagepuller.toml '[decryption-keys]\nkeys = ["kbs:///default/image-key/1"]\n'
## way guest-components
sed -i s/agent.guest_components_procs=none/quiet/ $main
## way timeout-create-short
sed -i /create_container_timeout/d $main
## way kubelet-docker-config
put var/lib/kubelet/config.json '{"auths":{"b.corp":{"auth":"cm9ib3Q6aHVudGVyMg=="}}}'
## way namespaces
sed -i s/imagepuller.toml/{namespace}.toml/ $etc/config.toml
add $etc/config.toml 'engine = "containerd"\n'
put $etc/team-a.toml '[registries."a.corp"]\n'; ln -s team-a.toml $etc/team-b.toml
## way namespaces-none
sed -i s/imagepuller.toml/tenants\\/{namespace}.toml/ $etc/config.toml; mkdir $etc/tenants
add $etc/config.toml 'engine = "cri-o"\n'
## way providers-not-asked
mkdir -p $providers; cp $eks $providers/config.json
## way providers-not-found
add $etc/config.toml '[credential-providers]\nregistries = ["a.corp"]\n'
## way providers-no-json
add $etc/config.toml '[credential-providers]\nregistries = ["a.corp"]\n'
put $providers/config.json '{'
## way provider-missing
add $etc/config.toml '[credential-providers]\nregistries = "matchImages"\n'
mkdir -p $providers; cp $eks $providers/config.json
## way provider-not-executable
add $etc/config.toml '[credential-providers]\nregistries = "matchImages"\n'
put $providers/ecr-credential-provider ''
cp $eks $providers/config.json
## way provider-writable
add $etc/config.toml '[credential-providers]\nregistries = "matchImages"\n'
put $providers/ecr-credential-provider ''; chmod 777 $providers/ecr-credential-provider
cp $eks $providers/config.json
## way leftover-image
put run/kata-containers/shared/initdata/3f1c0d9a5b7e/imagepuller.img ''
put run/kata-containers/shared/initdata/3f1c0d9a5b7e/imagepuller.json \
    '{"document":null,"providers":false,"held":true}'
## way leftovers-no-directory
put run/kata-containers/shared/initdata ''
## way installation-no-list
put opt/kata-configdev/installed.json '[]'
