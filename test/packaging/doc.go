// Package packaging tests what a release is made of: the configuration of goreleaser, the
// packages, the image, the unit of systemd, the example for Kubernetes, the alerts and the modules.
//
// `go test` reads the files. `.ci/run packaging` also builds the program,
// installs a package into a directory, and runs the unit under a systemd that it starts in
// namespaces of its own, as far as dpkg and systemd are installed and the tests run as root.
// `.ci/run release` installs the program with go install from a proxy in a directory, and runs
// goreleaser for this platform: both build everything again. With
// buildah it builds the image by the steps of its Dockerfile, and runs it. Not every machine can download
// the base images, so the programs of this machine take the place of theirs. With promtool it tests the
// alerts with servers that are down in many ways.
package packaging
