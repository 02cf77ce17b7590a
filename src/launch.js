#!/usr/bin/env -S node --max-semi-space-size=12 --heap-growing-percent=30 --expose-gc --
// Starts the command line. Plain JavaScript, so that an old Node.js can still print which version is needed, and so
// that the compile cache is on before the first TypeScript file is read: from the second start on nothing is
// stripped or compiled again, which saves most of the start-up and some 25 MiB. The flags above make V8 collect
// garbage sooner, and once after the start: an agent runs long, needs little memory and is billed for it. The `--`
// ends the options of Node.js, which would otherwise handle an `--env-file` of ours itself.
import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs'
import module from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 12)) {
  process.stderr.write(
    `vedette: this is Node.js ${process.versions.node}, and Vedette needs 24.12 or newer.\n` +
      'The project brings its own: run it as `npx vedette …` or `npm start` in its folder.\n',
  )
  process.exit(2)
}
// A signal before a long-running command has its own handlers ends it cleanly: there is nothing to finish.
if (['agent', 'platform', 'start'].includes(process.argv[2])) {
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, () => {
      if (process.listenerCount(signal) === 1) process.exit(process.exitCode ?? 0)
    })
  }
}
enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/vedette', import.meta.url)))
await import('./main.ts')

// The cache is in the project's own folder, since code from a world-writable folder must not run. A user without
// write access to it, such as an unforeseen user of a container, gets a cache in the home folder.
function enableCompileCache(own) {
  const { FAILED } = module.constants.compileCacheStatus
  if (module.enableCompileCache(own).status !== FAILED) return
  try {
    module.enableCompileCache(cacheAtHome(own))
  } catch {
    // Then everything is compiled at each start.
  }
}

// Node.js uses one cache folder for each user. The image's cache for all users, named `…-any` by docker/finish, is
// linked into it.
function cacheAtHome(own) {
  const folder = join(homedir(), '.cache', 'vedette', 'compiled')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const user = process.getuid()
  const { uid, mode } = statSync(folder)
  if (uid !== user || (mode & 0o022) !== 0) throw new Error(`${folder} is not ours alone`)
  const there = readdirSync(folder)
  for (const name of existsSync(own) ? readdirSync(own) : []) {
    const link = name.replace(/any$/, String(user))
    if (name.endsWith('-any') && !there.includes(link)) linkTo(join(own, name), join(folder, link))
  }
  return folder
}

function linkTo(target, path) {
  try {
    symlinkSync(target, path)
  } catch (error) {
    // Another process has created it meanwhile.
    if (error.code !== 'EEXIST') throw error
  }
}
