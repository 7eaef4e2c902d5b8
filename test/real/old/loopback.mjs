// Preloaded into servers that would listen on every address. With it they listen on
// the loopback only.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...args) {
  const rest = args.filter((arg) => typeof arg === "function");
  const [first] = args;
  if (first !== null && typeof first === "object" && "port" in first) {
    return listen.call(this, { ...first, host: "127.0.0.1" }, ...rest);
  }
  if (typeof first === "number" || typeof first === "string" && /^\d+$/.test(first)) {
    return listen.call(this, Number(first), "127.0.0.1", ...rest);
  }
  return listen.apply(this, args);
};
