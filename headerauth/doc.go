// Package headerauth supplies the headers of requests to a server from a program, or from a
// function, and asks again when the server refuses them. A [Source] is the Auth of a server:
//
//	mcpvisor.HTTP{URL: "https://mcp.example.com/mcp", Auth: &headerauth.Source{Command: []string{"print-token"}}}
//
// It is for credentials that another tool keeps: the command line of a cloud, a password manager,
// a ticket of Kerberos. Package config makes one of "headers_command" in a file. For tokens by
// OAuth see package oauth; for headers that differ from call to call see HTTP.HeaderFunc.
package headerauth
