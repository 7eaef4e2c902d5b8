// Package providers holds no code. Its tests show that the maps of package schema are
// what the Go SDKs of the providers call a tool: each function of the recorded catalogs
// becomes the SDK's own type, and back, without a loss. It is a module of its own, so that
// the SDKs stay out of mcpvisor.
package providers
