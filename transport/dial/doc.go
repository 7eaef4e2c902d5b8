// Package dial chooses the transport for a specification. It is apart from package
// transport because every transport imports that.
package dial
