# A guest without a TEE, whose disks are files: a part of hack/same's corpus.
## before
mkdir -p dev etc run proc sys/block sys/dev/block; echo 'flags : fpu vme' >proc/cpuinfo
unverified=configdev.allow_unverified_initdata=1; echo quiet $unverified >proc/cmdline; options=()
disks() { for name; do cp /srv/tests/data/disks/$name.img dev/vd$(ls dev | wc -l); done; }
beside_a_good_one() {
    case $1 in initdata*) disks $1 imgpullr ;; *) disks $1 initdata ;; esac
}
settings() { printf "$1" >etc/initdata-processor.toml; }
## command boot
for path in dev/*; do
    [ -e $path ] || continue
    name=${path#dev/}; place=devices/pci0000:00/0000:00:05.0/virtio1/block/$name
    mkdir -p sys/$place; echo 1 >sys/$place/ro; ln -s ../$place sys/block/$name
done
initdata-processor --root . "${options[@]}"

## way none
## way not-allowed
disks initdata imgpullr; echo quiet >proc/cmdline
## way verbose
disks initdata timesync; options=(--verbose)
## way kata-agent
disks initdata-config imgpullr
## way two-initdata
disks initdata initdata
## way two-configs
disks initdata imgpullr imgpullr
## way expected
echo $unverified configdev.expect=initdata,imagepuller >proc/cmdline
## way expected-unknown
echo $unverified configdev.expect=another >proc/cmdline
## way expected-by-kernel
disks initdata; echo $unverified configdev.expect=imagepuller >proc/cmdline
## way keep
disks initdata; settings 'accepted-disk = "keep"\n'
## way unknown-key
disks initdata; settings 'accepted-dsik = "keep"\n'
## way unknown-value
disks initdata; settings 'accepted-disk = "take"\n'
## way no-toml
disks initdata; settings '=\n'
