// Aim: what a run leaves is counted in full, and a link out of it is never missed, however many entries there are.
import { chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ownTree } from '../../src/sandbox/trees.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('all files count, and one link of many that leads out', async () => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, 'inner'))
  for (let n = 0; n < 40; n++) {
    const file = join(folder, 'inner', `${n}`)
    writeFileSync(file, 'ten bytes.')
    // As a run leaves it: what is root's own cannot come from one.
    if (process.getuid?.() === 0) chownSync(file, 64_299, 64_299)
  }
  symlinkSync('/etc', join(folder, 'out'))
  // Each is followed to its end, which takes longer than the one that leads out.
  symlinkSync('inner', join(folder, 'l0'))
  for (let n = 1; n < 12; n++) symlinkSync(`l${n - 1}`, join(folder, `l${n}`))
  expect(await ownTree(folder)).toEqual({ bytes: 400, files: 54, leadsOut: true })
})
