// Installs an engine or a runtime during the build of an image, like `vedette engine install` and `vedette runtime
// install`, with only a few of their sources.
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { installTool } from '../src/scripts/tool-install.ts'
import type { ToolKind } from '../src/scripts/toolchains.ts'

const AUTHORITY = '/opt/vedette/build/ca.pem'
const CACHE = '/tmp/npm'

const [kind = '', name = ''] = process.argv.slice(2)
const outcome = await installTool({
  kind: kind as ToolKind,
  name,
  folder: process.env['TOOLS_DIR'] ?? '',
  env: {
    ...process.env,
    npm_config_registry: process.env['NPM_REGISTRY'],
    npm_config_cache: CACHE,
    TMPDIR: '/tmp',
    ...(existsSync(AUTHORITY) && { NODE_EXTRA_CA_CERTS: AUTHORITY }),
  },
  signal: new AbortController().signal,
})
if ('problem' in outcome) throw new Error(`${name} was not installed: ${outcome.problem}`)
for (const one of outcome.tool.missing) {
  process.stdout.write(`${name}: the registry has no ${one}\n`)
}
await rm(CACHE, { recursive: true, force: true })
