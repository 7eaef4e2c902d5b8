package mcptest

var livenessZoo, processZoo []Misbehaviour
