package pipe

import "io"

// TryWriter returns nil: a write to a pipe of Windows may block.
func TryWriter(io.Writer) func([]byte) (int, error) { return nil }
