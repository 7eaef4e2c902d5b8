package main

import (
	"os"
	"os/exec"
	"path/filepath"
)

// everything is where test/real/run installs the reference server.
const everything = "../test/real/node_modules/@modelcontextprotocol/server-everything/dist/index.js"

// everythingTarget is server-everything on node. It has no command if either is not
// installed.
func everythingTarget() target {
	node, err := exec.LookPath("node")
	script, found := filepath.Abs(everything)
	if err != nil || found != nil || !exists(script) {
		return target{}
	}
	return target{kind: "server-everything", command: node, args: []string{script, "stdio"}, echoTool: "echo", echoArg: "message", reply: "Echo: %s",
		slowTool: "trigger-long-running-operation", slowArgs: map[string]any{"duration": 60, "steps": 1}}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
