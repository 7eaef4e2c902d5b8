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

// WithInput answers VS Code's ${input:id} by asking the user. It is called at
// most once for each id, and not if the variable [Input.Variable] is set. Its
// error becomes part of a problem, so it must not hold the answer. Without
// WithInput an input has its default; an entry whose input has none is a problem.
func WithInput(ask func(Input) (string, error)) Option {
	return func(r *reader) { r.input = ask }
}
