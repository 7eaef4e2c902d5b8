// Package packaging tests what a release is made of: the configuration of goreleaser, the
// packages, the image, the unit of systemd, the example for Kubernetes and the modules.
//
// `go test` reads the files. `.ci/run packaging` also builds the program as a release has it,
// installs it with go install from a proxy in a directory, installs a package into a
// directory, and lets systemd verify the unit, as far as dpkg and systemd-analyze are installed. goreleaser itself is not run: building it takes longer than
// all of these tests.
package packaging
