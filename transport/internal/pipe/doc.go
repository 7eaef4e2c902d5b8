// Package pipe reads from pipes without holding a buffer while there is nothing to read, and
// writes to pipes without waiting for room. A process has hundreds of idle servers, with
// three pipes each, and a server may stop reading. Start with reader.go.
package pipe
