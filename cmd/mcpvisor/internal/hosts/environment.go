package hosts

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
)

// Environment is what the places of the hosts' files depend on. A test sets it, so that
// the paths of every system are tested on one.
type Environment struct {
	// OS is the system, as runtime.GOOS names it.
	OS string
	// Home is the user's home directory.
	Home string
	// AppData is %APPDATA% on Windows.
	AppData string
	// XDGConfig is $XDG_CONFIG_HOME; empty for ~/.config.
	XDGConfig string
	// ClaudeConfig is $CLAUDE_CONFIG_DIR, where Claude Code keeps its file; empty for Home.
	ClaudeConfig string
	// CodexHome is $CODEX_HOME; empty for ~/.codex.
	CodexHome string
	// Dir is the directory of the project.
	Dir string
}

// Here returns the environment of this process, with its working directory as project.
func Here() (Environment, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Environment{}, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return Environment{}, err
	}
	return Environment{OS: runtime.GOOS, Home: home, AppData: os.Getenv("APPDATA"), XDGConfig: os.Getenv("XDG_CONFIG_HOME"),
		ClaudeConfig: os.Getenv("CLAUDE_CONFIG_DIR"), CodexHome: os.Getenv("CODEX_HOME"), Dir: dir}, nil
}

// appDir is where applications keep their settings: %APPDATA%, Application Support, or
// the XDG directory.
func (e Environment) appDir(parts ...string) string {
	var dir string
	switch e.OS {
	case "windows":
		dir = cmp.Or(e.AppData, filepath.Join(e.Home, "AppData", "Roaming"))
	case "darwin":
		dir = filepath.Join(e.Home, "Library", "Application Support")
	default:
		return e.xdg(parts...)
	}
	return filepath.Join(append([]string{dir}, parts...)...)
}

// xdg is a path below the XDG directory for configuration.
func (e Environment) xdg(parts ...string) string {
	dir := cmp.Or(e.XDGConfig, filepath.Join(e.Home, ".config"))
	return filepath.Join(append([]string{dir}, parts...)...)
}

func (e Environment) home(parts ...string) string {
	return filepath.Join(append([]string{e.Home}, parts...)...)
}

func (e Environment) project(parts ...string) string {
	return filepath.Join(append([]string{e.Dir}, parts...)...)
}

// zedDir is where Zed keeps its settings: like other programs on Windows, and like those
// of Unix everywhere else.
func (e Environment) zedDir() string {
	if e.OS == "windows" {
		return e.appDir("Zed", "settings.json")
	}
	if e.OS == "darwin" {
		return e.home(".config", "zed", "settings.json")
	}
	return e.xdg("zed", "settings.json")
}
