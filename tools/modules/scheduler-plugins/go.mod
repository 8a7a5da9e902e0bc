module trainsnap.dev/tools/scheduler-plugins

go 1.26.0

// Only a CRD is taken from this module; nothing of it is built.
require sigs.k8s.io/scheduler-plugins v0.35.4-devel
