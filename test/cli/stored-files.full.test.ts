// Aim: `vedette check --output` stores the files of the last attempt of scripts in that folder, and none outside.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folderOf, storedFilesIn } from '../../src/cli/stored-files.ts'
import { startVedette } from '../support/platform/platform-process.ts'
import { scriptTools } from '../support/scripts/script-fleet.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

test('`vedette check --output` stores the files of each monitor in its folder', async () => {
  const script = `const { test } = require('@playwright/test')
      test('one', async ({ request }) => { await request.get('http://127.0.0.1:1/') })`
  const monitors = [{ name: 'Orders', type: 'MULTI_STEP', every: '10m', script }]
  const path = temporaryFile('monitors.yaml', JSON.stringify({ monitors }))
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

test('files of an earlier attempt are removed; a folder that cannot be made is a reason', async () => {
  const own = temporaryFile('a.txt', 'a')
  const output = join(temporaryFolder(), 'output')
  const artifact = (name: string) => ({ name, bytes: 1, sha256: '', contentType: 'text/plain' })
  const files = storedFilesIn(output)
  for (const name of ['old.txt', 'new.txt']) {
    expect(await files.stage(own, artifact(name))).toBeUndefined()
  }
  await files.settle({ artifacts: [artifact('new.txt')] })
  expect(readdirSync(output)).toEqual(['new.txt'])
  const nowhere = storedFilesIn('/proc/none/output')
  expect(await nowhere.stage(own, artifact('a.txt'))).toContain('1 bytes')
})

test.each([
  ['a slug stays as it is', 'front-page', '/output/front-page'],
  ['slashes make no folder', '../../etc', '/output/..%2F..%2Fetc'],
  ['dots alone are a name', '..', '/output/%2E%2E'],
])('%s', (_, id, expected) => expect(folderOf('/output', id)).toBe(expected))
