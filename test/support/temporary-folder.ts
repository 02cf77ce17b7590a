// Folders that are removed at the end of the test file. Other users may enter them, as PostgreSQL's user must.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

const made: string[] = []

// At the top level: a hook that is registered during a test is never called.
afterAll(() => {
  for (const folder of made) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

/** Makes a folder; may be called anywhere in a test file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-test-'))
  made.push(folder)
  chmodSync(folder, 0o755)
  return folder
}

/** Makes a file in a folder of its own; returns its path. */
export function temporaryFile(name: string, content: string | Uint8Array, mode = 0o644): string {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}
