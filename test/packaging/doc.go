// Package packaging tests what a release is made of: the configuration of goreleaser, the
// packages, the image, the unit of systemd, the example for Kubernetes, the alerts and the modules.
//
// `go test` reads the files. `.ci/run packaging` also builds the program as a release has it,
// installs it with go install from a proxy in a directory, runs goreleaser for this platform,
// installs a package into a directory, and runs the unit under a systemd that it starts in
// namespaces of its own, as far as dpkg and systemd are installed and the tests run as root. With
// buildah it builds the image by the steps of its Dockerfile, and runs it. The base images are in no
// registry that every machine reaches: the programs of this machine stand in for theirs. With
// promtool the alerts are tested with servers that are down in many ways.
package packaging
