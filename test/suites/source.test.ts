// Aim: what an agent keeps stays out of the copy of a project, also where it keeps it inside of that project.
import { mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import type { ScriptHost } from '../../src/scripts/host.ts'
import { placeProject } from '../../src/suites/source.ts'
import type { Toolchains } from '../../src/scripts/toolchains.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const PROJECT = ['package.json', 'tests/a.spec.ts', 'tests/work/b.spec.ts']
const DATA_FILES = ['agents/1/id', 'cache/packages/c', 'work/vedette-run-other/project/d']

function write(folder: string, paths: readonly string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), '')
  }
}

/** Files of the copy of a project, where DATA_DIR is. */
async function copied(project: string, dataDir: string): Promise<string[]> {
  write(dataDir, DATA_FILES)
  const runFolder = join(dataDir, 'work', 'vedette-run-mine')
  mkdirSync(runFolder)
  const tools = { folder: join(project, '.tools') } as Toolchains
  write(tools.folder, ['engines/node'])
  const host = { cacheFolder: join(dataDir, 'cache'), ownProjects: true, tools } as ScriptHost
  const placed = await placeProject(project, runFolder, host, AbortSignal.timeout(5000))
  expect(placed).toMatchObject({ folder: join(runFolder, 'project') })
  const { folder } = placed as { folder: string }
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => statSync(join(folder, path)).isFile())
    .toSorted()
}

function throughLink(project: string): string {
  const link = join(temporaryFolder(), 'link')
  symlinkSync(project, link)
  return join(link, 'data')
}

test.each([
  ['elsewhere', () => temporaryFolder(), PROJECT],
  ['in a folder of the project', (project: string) => join(project, 'data'), PROJECT],
  ['in a folder of the project, by another name', throughLink, PROJECT],
  ['the project’s own folder', (project: string) => project, ['agents/1/id', ...PROJECT]],
])('DATA_DIR is %s', async (_, dataDirOf, expected) => {
  const project = temporaryFolder()
  write(project, PROJECT)
  expect(await copied(project, dataDirOf(project))).toEqual(expected)
})
