// Package dial chooses the transport for a specification. It is not part of package
// transport, because that package is imported by every transport.
package dial
