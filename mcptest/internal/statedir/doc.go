// Package statedir counts what a fixture server did over its incarnations: starts,
// side effects and processes. Counts are kept in a directory, which outlives a
// process, or in memory.
package statedir
