package config

// Option adjusts how a file is read.
type Option func(*reader)

// WithLookup sets where variables come from. Default: os.LookupEnv.
func WithLookup(lookup func(name string) (string, bool)) Option {
	return func(r *reader) { r.lookup = lookup }
}

// WithWorkspace sets what ${workspaceFolder} stands for and where relative
// paths begin. Default: the directory of the file.
func WithWorkspace(dir string) Option { return func(r *reader) { r.workspace = dir } }

// WithInput answers VS Code's ${input:id}, for instance by asking a person. It
// is called at most once for each id. Its error becomes part of a problem, so
// it must not hold the answer. Without WithInput, entries that need an input
// are problems.
func WithInput(ask func(id string) (string, error)) Option {
	return func(r *reader) { r.input = ask }
}
