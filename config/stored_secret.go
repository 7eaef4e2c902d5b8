package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/regularfile"
)

// maxSecretFile is the longest file of ${file:path}, in bytes. A key or a token is
// shorter; a longer file is probably another one than was meant.
const maxSecretFile = 64 << 10

// storedSecret notes a value that was kept outside of the file and of the environment,
// so that the server of the entry does not show it.
func (p *parser) storedSecret(value string, err error) (string, error) {
	if err == nil {
		p.secrets = append(p.secrets, value)
	}
	return value, err
}

// fileValue returns the content of the file that ${file:path} names, without line breaks
// at its end. A relative path begins at the workspace, ~/ is the home directory.
func (p *parser) fileValue(shown string) (string, error) {
	path := shown
	switch {
	case path == "":
		return "", errors.New("${file:} names no file; write ${file:/path/of/the/secret}")
	case p.files != nil:
		value, err := p.files(shown)
		if err != nil {
			return "", fmt.Errorf("${file:%s}: %w", shown, err)
		}
		return value, nil
	case path == "~" || strings.HasPrefix(path, "~/"):
		dir, err := homeDir()
		if err != nil {
			return "", err
		}
		path = dir + path[1:]
	case !filepath.IsAbs(path):
		path = filepath.Join(p.text.workspace, path)
	}
	value, err := readSecret(path)
	if err != nil {
		return "", fmt.Errorf("${file:%s}: %w", shown, err)
	}
	return value, nil
}

// readSecret reads a short regular file. Its errors do not name the file.
func readSecret(path string) (string, error) {
	data, err := regularfile.Read(path, maxSecretFile)
	value := strings.TrimRight(string(data), "\r\n")
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("the file does not exist; create it, or correct the path")
	case errors.Is(err, os.ErrPermission):
		return "", errors.New("the file cannot be opened; check its permissions, and those of its directory")
	case errors.Is(err, regularfile.ErrNotRegular), errors.Is(err, regularfile.ErrLong):
		return "", fmt.Errorf("%w; name one that holds the value alone", errors.Unwrap(err))
	case err != nil:
		return "", errors.New("the file cannot be reached or read; check the permissions of its directory, and the disk")
	case value == "":
		return "", errors.New("the file is empty; write the value into it")
	}
	return value, nil
}

// keyringValue returns the entry of the keyring that ${keyring:service/account} names.
func (p *parser) keyringValue(entry string) (string, error) {
	service, account, ok := strings.Cut(entry, "/")
	if !ok || service == "" || account == "" {
		return "", errors.New("${keyring:…} names no entry; write ${keyring:service/account}")
	}
	if p.keyring == nil {
		return "", fmt.Errorf("${keyring:%s} cannot be read, because this program opens no keyring; use ${VAR} or ${file:…}", entry)
	}
	value, err := p.keyring(service, account)
	if err != nil {
		return "", fmt.Errorf("${keyring:%s}: %w", entry, err)
	}
	return value, nil
}
