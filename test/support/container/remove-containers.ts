// Called by vitest before all tests of the images: removes the leftovers of killed runs.
import { missingImages } from './images.ts'
import { removeLeftOver } from './container-engine.ts'

export async function setup(): Promise<void> {
  if (missingImages() === undefined) await removeLeftOver()
}
