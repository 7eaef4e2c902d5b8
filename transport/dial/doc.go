// Package dial is not part of the stable API. It chooses the transport for a specification.
// It is apart from package transport, because every transport imports that package.
package dial
