/* The page's one entry: everything is loaded and in place before the page starts. Modules do nothing when they are imported but define things
   (they import each other in circles); the scripts beside this one add their part to the page by its events. */
import "./page/fader.js"; // first: the scripts below build on window.fader
import "./transfer.js";
import "./insight/panel.js";
import "./insight/playground.js";
import { start } from "./page/start.js";
import { startParameters } from "./parameters/panel.js";

start();
startParameters();
