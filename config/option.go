package config

// Option changes how [Load] and [Parse] read a file.
type Option func(*parser)

// WithLookup sets how the value of an environment variable is found. It reports
// false for a variable that is not set. The default, also for nil, is os.LookupEnv.
func WithLookup(lookup func(name string) (string, bool)) Option {
	return func(p *parser) {
		if lookup != nil {
			p.lookup = lookup
		}
	}
}

// WithKeyring sets how ${keyring:service/account} is found. The error of lookup becomes
// part of a problem, so it must not hold the value. Without WithKeyring such a value is a
// problem: this package opens no keyring by itself.
func WithKeyring(lookup func(service, account string) (string, error)) Option {
	return func(p *parser) { p.keyring = lookup }
}

// WithFiles sets how ${file:path} is found, by the path as it is written. The error of lookup becomes
// part of a problem, so it must not hold the value. The default, also for nil, reads the file. A
// program that only checks a configuration, which another machine uses, needs it.
func WithFiles(lookup func(path string) (string, error)) Option {
	return func(p *parser) { p.files = lookup }
}

// WithServers limits what is read to some entries: those whose server has one of the names, or
// whose name in the file is one of them. The others are not read, and are [Server.Skipped]: the
// user is not asked for their inputs, no keyring is opened for them, and their mistakes are not
// reported. Without names all entries are skipped, so that only their names are known.
func WithServers(names ...string) Option {
	return func(p *parser) { p.only, p.limited = names, true }
}

// WithWorkspace sets the directory that ${workspaceFolder} stands for and where
// relative paths begin. The default is the directory of the file.
func WithWorkspace(dir string) Option { return func(p *parser) { p.workspace = dir } }

// WithInput sets how the user is asked for VS Code's ${input:id}. ask is called
// at most once for each id, and not if the variable [Input.Variable] is set. Its
// error becomes part of a problem, so it must not hold the answer. Without
// WithInput an input has its default, and an entry whose input has none is left
// out with a problem.
func WithInput(ask func(Input) (string, error)) Option {
	return func(p *parser) { p.ask = ask }
}
