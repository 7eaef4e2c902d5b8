// Package compare runs the cluster of protoactor-go beside a fleet, under the same faults and callers.
// It is a module of its own, so that the module fleet does not require that cluster.
package compare
