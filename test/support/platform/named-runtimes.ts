// Cheap runtimes: this project's own Node.js, and one package by which a script identifies its runtime.
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { INSTALLED_FILE, toolFolder } from '../../../src/scripts/toolchains.ts'
import { temporaryFolder } from '../temporary-folder.ts'

/** A toolchains folder in which `require('runtime-name')` of each runtime is its id. */
export function namedRuntimes(...ids: string[]): string {
  const tools = join(temporaryFolder(), 'tools')
  for (const id of ids) {
    const own = toolFolder(tools, 'runtime', id)
    const marker = join(own, 'node_modules', 'runtime-name')
    mkdirSync(marker, { recursive: true })
    writeFileSync(join(marker, 'index.js'), `module.exports = ${JSON.stringify(id)}`)
    symlinkSync(process.execPath, join(own, 'node'))
    writeFileSync(join(own, INSTALLED_FILE), JSON.stringify({ program: 'node', missing: [] }))
  }
  return tools
}
