package stdio

import "io"

// tryWriter returns nil: a write to a pipe of Windows may block.
func tryWriter(io.Writer) func([]byte) (int, error) { return nil }
