// Package catalog holds what one incarnation of a server offers: its tools,
// resources, resource templates and prompts, sorted and indexed.
//
// A [Catalog] is immutable once [New] has returned it. Readers share it without
// a lock, and a refresh makes another one. Package transport/discovery fills it;
// the port publishes it. Start with catalog.go.
package catalog
