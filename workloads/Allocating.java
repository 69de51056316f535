// SPDX-License-Identifier: GPL-2.0-only
/* Threads that allocate: most of it is garbage soon, some of it lives for a while. */
public class Allocating {
	static final int TURNS = 1000, KEPT = 250, SIZE = 16 << 10;

	static void allocate() {
		byte[][] kept = new byte[KEPT][];

		for (int turn = 0; turn < TURNS; turn++)
			kept[turn % KEPT] = new byte[SIZE];
	}

	public static void main(String[] arguments) throws InterruptedException {
		Thread[] threads = new Thread[Integer.parseInt(arguments[0])];

		for (int i = 0; i < threads.length; i++) {
			threads[i] = new Thread(Allocating::allocate);
			threads[i].start();
		}
		for (Thread thread : threads)
			thread.join();
	}
}
