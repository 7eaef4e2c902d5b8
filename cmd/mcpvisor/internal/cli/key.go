package cli

import (
	"bytes"
	"fmt"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// maxKeyFile is the longest file of a key, in bytes.
const maxKeyFile = 4 << 10

// ReadKey reads the key of the records from a file, without the white space around it; nil without a path.
func ReadKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := regularfile.Read(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key of the records: %w", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, UsageError("the key file %s is empty; write a secret into it, for instance with: openssl rand -hex 32", path)
	}
	return text, nil
}
