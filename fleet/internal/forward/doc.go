// Package forward passes requests about a server that are not calls from a node to the owner of the
// server: subscriptions, log levels, tasks; and its notices back. An [Owner] executes them on the
// client of the owner's node. A [Reader] makes them for a session on another node.
package forward
