// The official host of MCP Apps in a page: shows an app in a frame, and hands what it asks to `askServer`.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

window.openApp = async (html) => {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  document.body.append(frame);
  const bridge = new AppBridge(null, { name: "host", version: "1" }, { serverTools: {}, serverResources: {} });
  bridge.oncalltool = (params) => window.askServer("tools/call", params);
  bridge.onreadresource = (params) => window.askServer("resources/read", params);
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  const opened = new Promise((resolve) => {
    bridge.oninitialized = resolve;
  });
  frame.srcdoc = html;
  await opened;
};
