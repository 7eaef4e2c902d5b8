// Package config reads the server lists that people already have and makes
// [mcpvisor.ServerSpec] values of them.
//
// Understood are the mcpServers object of Claude Desktop, Claude Code's
// .mcp.json and Cursor, and the servers object of VS Code (also below "mcp" in
// its settings). Comments and trailing commas are allowed. Other keys at the
// top of a file belong to its host and are left alone. Beside the keys of those
// hosts stand our own, so that one file serves both:
//
//	{
//	  "mcpServers": {
//	    "fs": {
//	      "command": "npx",
//	      "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"],
//	      "retry": {"max_attempts": 5, "base": "500ms"},
//	      "timeouts": {"call": "2m"}
//	    }
//	  }
//	}
//
// # Keys of an entry
//
// A program: command, args, env, envFile, cwd, inherit_env,
// keep_daemons. An endpoint: url
// (or serverUrl, httpUrl), headers. Either: type (or transport), disabled,
// enabled, and
//
//	type      "stdio", "http" or "sse"; told by the other keys where it is missing.
//	          "sse" is the deprecated transport HTTP+SSE, which "http" finds by
//	          itself; see [mcpvisor.HTTP]
//	retry     false, a number of attempts, or {max_attempts (a number or
//	          "unlimited"), base, max, jitter, stable_after, park,
//	          intensity {restarts, window}}; see [supervisor.Policy]. Without
//	          the key it is [DefaultRetry]; a policy that is spelled out parks
//	          only if it says so.
//	timeouts  {start, negotiate, list, call, hard_max, shutdown}; see [mcpvisor.Timeouts]
//	limits    {line, buffer, elements, decoded, items, pages, catalog, in_flight, queue, stderr_lines};
//	          see [mcpvisor.Limits]
//	probe     false, or {every, timeout, failures}; see [mcpvisor.Probe]
//	auth      true, or {client_id, client_secret, private_key_file,
//	          client_metadata_url, client_name, issuer, scopes, redirect_url,
//	          grant, assertion_file, enterprise {token_endpoint, client_id,
//	          client_secret, id_token_file}, account, store, wait}; see
//	          [mcpvisor.OAuth]. For endpoints. store is "keyring", "memory" or a
//	          directory; files of tokens are read whenever one is needed. Claude
//	          Code's oauth {clientId, callbackPort, scopes} and Cursor's auth
//	          {CLIENT_ID, CLIENT_SECRET, scopes} are read as well. A person
//	          authorizes with "mcpvisor authorize".
//	standby   true keeps a second process at hand; see [mcpvisor.ServerSpec]
//	tools     names of the tools that are offered, as in ["read_*", "list_directory"],
//	          or {allow [], deny []}; enabledTools (or includeTools) and disabledTools
//	          (or excludeTools) are read as well. * stands for any text. See
//	          [mcpvisor.ToolFilter]. A list that is empty offers no tool.
//	era       "auto", "legacy" or "modern"; see [mcpvisor.Era]
//
// Any text may name an entry. One that cannot name a server, such as
// "microsoft/playwright-mcp", gets a legal name that is derived from it, and a
// warning says which; [Server.Entry] keeps the text.
//
// A command line in command ("npx -y some-server") is taken apart, with a
// warning, unless it names a program as a whole. Of url and httpUrl the second
// one counts.
//
// Durations are strings such as "1.5s" or numbers of seconds. A relative cwd or
// envFile begins at the workspace, which is the directory of the file; ~/ at the start of command, cwd and envFile
// is the home directory. The key timeout of other hosts bounds a call; because
// they disagree about its unit, a number from 1000 up is taken for
// milliseconds, a smaller one for seconds, and a warning says which.
//
// # Variables
//
// In command, args, cwd, envFile, url and the values of env, headers and auth:
//
//	${VAR}              the environment variable; a problem if it is not set
//	${VAR:-default}     the default if it is not set, or empty
//	${env:VAR}          the same as ${VAR}
//	${workspaceFolder}  the directory of the file, or see [WithWorkspace]
//	${userHome}         the user's home directory
//	${input:id}         the variable MCPVISOR_INPUT_ID, or what [WithInput]
//	                    answers, or the default of the file's "inputs"
//	$${                 a literal ${
//
// A bare $VAR is left alone, and what a variable holds is not expanded again.
//
// # What is wrong with a file
//
// A file that cannot be read is an error. An entry that cannot be used is a
// [Problem] with file and line, and the other entries are returned. A key that
// nobody knows is a problem too, but only a warning. Errors and problems hold
// the names of variables, never their values.
package config
