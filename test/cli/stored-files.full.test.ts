// Aim: `vedette check --output` stores the files of scripts in that folder, those of the last attempt alone, and no id
// of a monitor leads out of the folder.
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folderOf, storedFilesIn } from '../../src/cli/stored-files.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { scriptTools } from '../support/scripts/script-fleet.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('`vedette check --output` stores the files of each monitor in its folder', async () => {
  const path = join(temporaryFolder(), 'monitors.yaml')
  const script = `const { test } = require('@playwright/test')
      test('one', async ({ request }) => { await request.get('http://127.0.0.1:1/') })`
  const monitors = [{ name: 'Orders', type: 'MULTI_STEP', every: '10m', script }]
  writeFileSync(path, JSON.stringify({ monitors }))
  const output = join(temporaryFolder(), 'output')
  const env = { TOOLS_DIR: scriptTools(), TMPDIR: temporaryFolder() }
  const args = ['check', path, '--json', '--output', output]
  const { code, stdout, stderr } = await startVedette(args, env).ended
  expect(code).toBe(1)
  const result = JSON.parse(stdout) as { artifacts: { name: string }[] }
  const names = result.artifacts.map(({ name }) => name)
  expect(names.length).toBeGreaterThan(0)
  expect(readdirSync(join(output, 'orders')).toSorted()).toEqual(names.toSorted())
  expect(stderr).toContain(`files: ${output}\n`)
})

test('files of an earlier attempt are removed if the result does not name them', async () => {
  const folder = temporaryFolder()
  const own = join(folder, 'a.txt')
  writeFileSync(own, 'a')
  const artifact = (name: string) => ({ name, bytes: 1, sha256: '', contentType: 'text/plain' })
  const files = storedFilesIn(join(folder, 'output'))
  for (const name of ['old.txt', 'new.txt'])
    expect(await files.stage(own, artifact(name))).toBeUndefined()
  await files.settle({ artifacts: [artifact('new.txt')] })
  expect(readdirSync(join(folder, 'output'))).toEqual(['new.txt'])
})

test('a folder that cannot be created is a reason, and does not block for ever', async () => {
  const own = join(temporaryFolder(), 'a.txt')
  writeFileSync(own, 'a')
  const artifact = { name: 'a.txt', bytes: 1, sha256: '', contentType: 'text/plain' }
  expect(await storedFilesIn('/proc/none/output').stage(own, artifact)).toContain('1 bytes')
})

test.each([
  ['a slug stays as it is', 'front-page', '/output/front-page'],
  ['slashes make no folder', '../../etc', '/output/..%2F..%2Fetc'],
  ['dots alone are a name', '..', '/output/%2E%2E'],
])('%s', (_, id, expected) => expect(folderOf('/output', id)).toBe(expected))
