// An issuer for tests: oidc-provider over HTTPS on a port of this machine. Anybody logs in with any password.
// node oidc_provider.mjs MODULES CONFIGURATION   (JSON: port, cert, key, client, secret, redirect, seconds)
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { pathToFileURL } from "node:url";

const [modules, file] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(`${modules}/oidc-provider/lib/index.js`));
const given = JSON.parse(readFileSync(file));
const provider = new Provider(`https://localhost:${given.port}`, {
  clients: [{
    client_id: given.client, client_secret: given.secret, redirect_uris: [given.redirect],
    grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
  }],
  claims: { openid: ["sub"], email: ["email"] },
  conformIdTokenClaims: false,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com` }) }),
  ttl: { IdToken: given.seconds, AccessToken: 60, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
  cookies: { keys: ["only for tests"] },
  features: { devInteractions: { enabled: true } },
});
provider.on("grant.success", (context) => console.log(`grant ${context.oidc.params.grant_type}`));
provider.on("server_error", (_, error) => console.log(`error ${error.stack}`));
for (const name of ["authorization.error", "grant.error"]) provider.on(name, (_, error) => console.log(`${name} ${error.message} ${error.error_description}`));
createServer({ cert: readFileSync(given.cert), key: readFileSync(given.key) }, provider.callback())
  .listen(given.port, "127.0.0.1", () => console.log("ready"));
